"""Five `shadowtree serve` processes, whose ways to one another can be broken."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import shadowtree
from tests.chaos.faults import OF_PROCESSES, Kind
from tests.chaos.links import links
from tests.fakes.tcp_proxy import Passage
from tests.integration.nameserver.server_process import full_disk_of

SUBNETS = ("a.x", "b.x", "c.x", "d.x", "e.x")

DRAIN_SECONDS = 2
"""Less than the default: a server that ends while it is cut off would use all of it."""

SERVE = (sys.executable, "-m", "shadowtree", "serve", "--config")

START_SECONDS = 60
END_SECONDS = 30
"""Limit on the seconds that a process takes to serve, and to end after SIGTERM, on a machine with much other work."""

LOOK_SECONDS = 0.05
"""Seconds between two looks for an awaited state."""


class Cluster:
    """All servers run, and are connected, when the context is entered; afterwards all are gone."""

    def __init__(self, folder):
        """`folder` takes databases, settings and logs."""
        self.folder = folder
        self.surprises = []
        """Unexpected ends of processes."""
        self.links = links(SUBNETS)
        self._processes = {}
        self._locks = [threading.Lock() for _ in SUBNETS]
        self._links = threading.Lock()
        self._breaks = []
        """Link faults that last."""
        self._passages = {}
        self._admins = [self.new_client(number, timeout=1) for number in range(len(SUBNETS))]

    def __enter__(self):
        self._stack = ExitStack()
        self._stack.enter_context(self.links)
        self._stack.callback(self._close)
        for number in range(len(SUBNETS)):
            self._write_settings(number)
        for number in range(len(SUBNETS)):
            self._start(number)
        self.wait_until_quiet(START_SECONDS)
        return self

    def __exit__(self, *_):
        self._stack.close()

    def new_client(self, number, *, timeout=None, on_wait=None):
        """Return a client of one server, over a way that no fault breaks."""
        return shadowtree.Client(self.links.address(number), timeout=timeout, on_wait=on_wait)

    # Faults

    def carry_out(self, fault, until_end):
        """Begin a fault, call `until_end`, undo it. To be called in a thread of its own."""
        if fault.kind in OF_PROCESSES:
            (victim,) = fault.servers
            with self._locks[victim]:
                self._trouble(fault.kind, victim, until_end)
            return
        self._change_links(lambda: self._breaks.append(fault))
        try:
            until_end()
        finally:
            self._change_links(lambda: self._breaks.remove(fault))

    def _trouble(self, kind, victim, until_end):
        process = self._processes[victim]
        if process.poll() is not None:
            self.surprises.append(f"{SUBNETS[victim]} ended by itself with status {process.returncode}")
        if kind in (Kind.PAUSE, Kind.LONG_PAUSE):
            process.send_signal(signal.SIGSTOP)
            until_end()
            process.send_signal(signal.SIGCONT)
            return
        if kind is Kind.FULL:
            with full_disk_of(process.pid):
                until_end()
            return
        if kind is Kind.KILL:
            process.kill()
            process.wait()
            until_end()
        else:
            process.terminate()
            until_end()
            try:
                status = process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                status = f"none within {END_SECONDS} s"
                process.kill()
                process.wait()
            if status != 0:
                self.surprises.append(f"{SUBNETS[victim]} was told to end, and its status was {status}")
        self._start(victim)

    def _change_links(self, change):
        with self._links:
            change()
            wanted = {}
            for fault in self._breaks:
                passage = Passage.DROP if fault.is_silent else Passage.CUT
                for way in fault.broken_ways(len(SUBNETS)):
                    wanted[way] = Passage.CUT if Passage.CUT in (passage, wanted.get(way)) else passage
            for way in sorted(wanted.keys() | self._passages.keys()):
                passage = wanted.get(way, Passage.PASS)
                if passage is not self._passages.get(way, Passage.PASS):
                    self.links.set(*way, passage)
            self._passages = wanted

    # Rest

    def unrest(self):
        """Return the first activity that still goes on, in one line. None if all is quiet."""
        for number, admin in enumerate(self._admins):
            name = SUBNETS[number]
            process = self._processes[number]
            if process.poll() is not None:
                return f"{name} ended with status {process.returncode}"
            try:
                status, peers = admin.status(), admin.peers()
            except shadowtree.ShadowtreeError as error:
                return f"{name} does not answer: {error.message}"
            if status.in_doubt:
                return f"{name} is in doubt of {', '.join(status.in_doubt)}"
            if status.parcels_unsettled:
                return f"{name} has {status.parcels_unsettled} parcels that are not settled"
            if status.messages_queued:
                return f"{name} has {status.messages_queued} messages for homes that were away"
            for peer in peers:
                if (peer.life, peer.via) != ("up", ""):
                    return f"{name} thinks {peer.life} {peer.via} of {', '.join(peer.subnets)}: {peer.why}"
                if peer.letters_waiting:
                    return f"{name} has {peer.letters_waiting} letters for {', '.join(peer.subnets)}"
        return None

    def wait_until_quiet(self, seconds):
        """Wait until nothing goes on; returns what still does after so many seconds, else None."""
        deadline = time.monotonic() + seconds
        while (unrest := self.unrest()) is not None and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        return unrest

    def peer_faults(self):
        """Return the peer faults that servers count and that no correct server causes."""
        return [
            f"{SUBNETS[number]} counts {fault.count} {fault.kind} of {', '.join(peer.subnets)}"
            for number, admin in enumerate(self._admins)
            for peer in admin.peers()
            for fault in peer.faults
        ]

    def counters(self):
        """Return the counter of the newest revision that each server knows, by its name."""
        found = [admin.status() for admin in self._admins]
        return {status.server: int(status.revision.partition("@")[0]) for status in found}

    # Processes

    def _write_settings(self, number):
        peers = []
        for other, subnet in enumerate(SUBNETS):
            if other != number:
                peers.append(f'"{subnet}" = "{self.links.way(number, other)}"')
        lines = [
            f'listen = "{self.links.address(number)}"',
            f'database = "sqlite:///{self.folder}/{SUBNETS[number]}.db"',
            f'subnets = ["{SUBNETS[number]}"]',
            f"drain_seconds = {DRAIN_SECONDS}",
            # All ways are to lead through the links that a run breaks.
            'announced_address = "none"',
            "[peers]",
            *peers,
        ]
        self._file(number, "toml").write_text("\n".join(lines) + "\n")

    def _start(self, number):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}
        with self._file(number, "log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                [*self.links.command(number), *SERVE, self._file(number, "toml")],
                stdout=log,
                stderr=log,
                env=environment,
            )

    def _file(self, number, kind):
        return self.folder / f"{SUBNETS[number]}.{kind}"

    def _close(self):
        for admin in self._admins:
            admin.close()
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
