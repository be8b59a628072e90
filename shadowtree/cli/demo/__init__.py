"""The tours of `shadowtree demo`, and the servers and programs that they run on."""
