"""The Python client: `sync` and `asynchronous` carry out the calls that `calls` describes and `answers` reads."""
