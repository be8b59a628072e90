"""The asynchronous client. The synchronous one is generated from it, but for what the two do differently.

client           the verbs; generated for the other one
change_stream    updates as they are committed; generated for the other one
streams          the streams of messages: tasks here, threads there
transport        channels and waiting
"""
