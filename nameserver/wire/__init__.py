"""Conversion between values of the core and messages of gRPC: the only place that knows both forms."""
