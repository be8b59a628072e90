"""What is measured, against a bare gRPC echo of the same run where a figure depends on the machine."""
