"""The synchronous client. `client` and `change_stream` are generated from `shadowtree.client.asynchronous`."""
