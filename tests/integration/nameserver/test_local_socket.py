"""The local socket of a real server: operators, and nobody else, from its start to its end."""

import os
import stat

import grpc
import pytest

import shadowtree
from nameserver.access.local_socket import is_short_enough
from shadowtree.cli.main import status_of


class Place:
    """A folder of a test, with a path that is short enough for sockets."""

    def __init__(self, folder, start):
        self.database, self._start = folder / "names.db", start
        self.socket = folder / "names.db.local" / "b.c.sock"
        self.address = f"unix:{self.socket}"

    def start(self):
        return self._start(self.database, listen_local=None, log_level="info")


@pytest.fixture
def place(tmp_path_factory, start):
    found = Place(tmp_path_factory.mktemp("s"), start)
    if not is_short_enough(found.socket):
        pytest.skip("the folder for tests has a path that is too long for sockets")
    return found


def test_all_that_a_client_can_do_works_on_the_socket(place, tmp_path):
    server = place.start()
    with shadowtree.Client(place.address) as operator, shadowtree.Client(server.address) as names:
        operator.create_group("g@b.c")
        operator.join("g@b.c", "ann@b.c")
        assert operator.check("g@b.c", "ann@b.c")
        assert names.resolve("g@b.c").processes == ("ann@b.c",)
        assert operator.status().groups == 1
        assert operator.snapshot(tmp_path / "snapshots").nodes == 2
        operator.add_peer("s.t", "127.0.0.1:1")
        operator.open_mailbox("ann@b.c")
        operator.send("g@b.c", b"hello")
        with operator.listen("ann@b.c") as messages:
            assert next(iter(messages)).payload == b"hello"
    _, log = server.terminate()
    assert f"serving_operators operators on this machine are answered on {place.address}" in log
    (added,) = [line for line in log.splitlines() if " peer_added " in line]
    assert "principal=operator@local" in added
    assert "asked_by=local" in added.replace('"', "")


async def test_the_asynchronous_client_opens_it_too(place):
    place.start()
    async with shadowtree.aio.Client(place.address) as operator:
        assert (await operator.status()).server == "b.c"


def test_the_command_line_opens_it(place):
    place.start()
    assert status_of(["--server", place.address, "group", "create", "g@b.c"]) == 0
    assert status_of(["peers", "--server", place.address, "add", "s.t=127.0.0.1:1"]) == 0


def test_its_modes_let_nobody_else_in(place):
    place.start()
    assert stat.S_IMODE(place.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.socket.parent.stat().st_mode) == 0o700
    assert place.socket.stat().st_uid == os.geteuid()


def test_it_is_gone_with_its_server_and_replaced_after_a_crash(place):
    place.start().terminate()
    assert not place.socket.exists()
    place.start().kill()
    assert place.socket.exists()
    place.start()
    with shadowtree.Client(place.address) as operator:
        assert operator.status().server == "b.c"


def test_a_second_server_does_not_take_it(place, tmp_path, start):
    place.start()
    other = start(tmp_path / "other.db", listen_local=place.address, wait=False)
    status, errors = other.outcome()
    assert (status, errors.splitlines()[-1]) == (
        4,
        f"another server listens on {place.address}; stop it, or name another listen_local",
    )
    with shadowtree.Client(place.address) as operator:
        assert operator.status().server == "b.c"


def test_a_server_goes_on_without_the_socket_that_nobody_asked_for(place):
    place.socket.parent.mkdir(0o755)
    place.socket.parent.chmod(0o755)
    server = place.start()
    with shadowtree.Client(server.address) as names:
        assert names.status().server == "b.c"
    assert "no_local_socket" in server.terminate()[1]


def test_a_call_that_another_server_forwards_is_refused_there(place):
    place.start()
    with grpc.insecure_channel(place.address) as channel:
        call = channel.unary_unary("/shadowtree.v1.AdminService/GetStatus")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=20, metadata=(("shadowtree-forwarded-by", "x.y"),))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_path_that_no_socket_can_have_is_told(capsys):
    assert status_of(["--server", "unix:/" + "d" * 200, "status"]) == 2
    assert "at most 107 bytes" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_cannot_open_it(place):
    place.start()
    for folder in (place.socket.parent.parent, *place.socket.parent.parent.parents):
        if folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & stat.S_IXOTH:
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    child = os.fork()
    if child == 0:
        import socket

        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            socket.socket(socket.AF_UNIX).connect(str(place.socket))
        except PermissionError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
