"""The asynchronous client, from which the synchronous client is generated, except for the modules that differ.

client           methods of the client; generated for the synchronous client
change_stream    updates as they are committed; generated for the synchronous client
streams          streams of messages: tasks here, threads in the synchronous client
transport        channels and waiting
"""
