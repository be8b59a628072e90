"""Real server cores in one process, over simulated disks, networks and connections."""
