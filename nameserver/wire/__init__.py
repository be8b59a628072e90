"""Values of the core as messages of gRPC and back: the only place that knows both forms."""
