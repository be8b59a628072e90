"""Real cores in one process, over disks, networks and connections that are simulated."""
