"""The gRPC services: each file answers one kind of call; `name_service` and `admin_service` list them by method."""
