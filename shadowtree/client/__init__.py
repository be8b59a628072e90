"""The Python client: the packages `synchronous` and `asynchronous` make the calls of `calls`; `answers` reads the
responses.
"""
