"""Servers of organisations that prove themselves to one another: an authority for each, real TLS, in this process.

Clients call each server in plain text on loopback; peers meet at the addresses of `listen_mutual`.
"""

from datetime import UTC, datetime, timedelta

from shadowtree import Client
from shadowtree.cli.support.free_ports import unused_ports
from tests.certificates import Authority
from tests.server_in_thread import ServerInThread

OPEN = {"operators": ["anyone"], "default_preset": "open", "people": "open"}
"""Policy of a server at which every caller may do everything."""


class Organisation:
    """One organisation: its authority, and the files of its server."""

    def __init__(self, folder, name, *more, life=timedelta(days=30)):
        self.folder = folder
        self.name = name
        self.subnets = (name, *more)
        self.authority = Authority(name, at=datetime.now(UTC).replace(microsecond=0))
        folder.mkdir(exist_ok=True)
        self.certificate, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        self.ca = folder / f"{name}-ca.pem"
        self.ca.write_bytes(self.authority.pem)
        self.issue(life=life)

    def issue(self, authority=None, *, at=None, life=timedelta(days=30)):
        """Put another certificate, with another key, into the files."""
        issued = (authority or self.authority).server(self.name, *self.subnets[1:], at=at, life=life)
        self.put(issued)
        return issued

    def put(self, issued):
        self.certificate.write_bytes(issued.pem)
        self.key.write_bytes(issued.key_pem)


class Federation:
    """Servers of some organisations, each of which pins the authorities of all others."""

    def __init__(self, folder, *organisations):
        """`organisations`: names, or tuples of the subnets of one server."""
        self.folder = folder
        self.organisations = {}
        for each in organisations:
            subnets = (each,) if isinstance(each, str) else each
            self.organisations[subnets[0]] = Organisation(folder, *subnets)
        self.mutual = dict(zip(self.organisations, unused_ports(len(self.organisations)), strict=True))
        self.servers = {}
        self.clients = {}

    def peers_of(self, name):
        """Return the table of peers of a server."""
        return {
            subnet: {"address": self.address(other), "trust": str(organisation.ca)}
            for other, organisation in self.organisations.items()
            if other != name
            for subnet in organisation.subnets
        }

    def address(self, name):
        """Return the address at which peers meet a server."""
        return f"127.0.0.1:{self.mutual[name]}"

    def settings(self, name):
        """Return the settings of a server."""
        organisation = self.organisations[name]
        return {
            "tls": {"certificate": str(organisation.certificate), "key": str(organisation.key)},
            "listen_mutual": self.address(name),
            "insecure_listen_on_a_public_address": True,
            "peers": self.peers_of(name),
            # These tests are about servers, not about the rights of callers.
            "policy": OPEN,
        }

    def start(self, name, **more):
        """Start one server."""
        settings = {key: value for key, value in (self.settings(name) | more).items() if value is not None}
        server = ServerInThread(*self.organisations[name].subnets, name=name, **settings)
        self.servers[name] = server
        self.clients[name] = Client(server.address, timeout=20)
        return server

    def start_all(self):
        for name in self.organisations:
            self.start(name)
        return self

    def states(self, name):
        """Return the states of all peers of a server, by their first subnet."""
        return {peer.subnets[0]: peer.state for peer in self.clients[name].peers().peers}

    def are_connected(self):
        return all(state == "connected" for name in self.servers for state in self.states(name).values())

    def close(self):
        for client in self.clients.values():
            client.close()
        for server in self.servers.values():
            server.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
