"""The Python client: packages `synchronous` and `asynchronous` make the calls of `calls`; `answers` reads responses."""
