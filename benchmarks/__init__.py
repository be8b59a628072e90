"""Measurements. A figure that depends on the machine is set beside a bare gRPC echo of the same run."""
