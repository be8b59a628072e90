"""The shell: the one place that knows gRPC servers, the event loop, threads and the clock."""
