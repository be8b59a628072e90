"""The local socket: its place, its modes, and the sockets of servers that ended."""

import os
import socket
import stat
from pathlib import Path

import pytest

from nameserver.access.local_socket import LocalSocketError, is_short_enough, listen, place_of, runtime_folder
from nameserver.config.declared import SettingsError
from nameserver.config.settings import load_settings
from nameserver.config.socket_paths import SOCKET_PATH_LIMIT


def settings(database="sqlite:////var/lib/shadowtree/names.db", **more):
    return load_settings(None, {"database": database, "subnets": "b.x"} | more, {})


def bind(address):
    """Bind as gRPC does."""
    path = address.removeprefix("unix:")
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
    return 1


@pytest.fixture
def place(tmp_path_factory):
    # The folder of a test may have a path that is longer than that of a socket.
    folder = tmp_path_factory.mktemp("s")
    if not is_short_enough(folder / "names.db.local" / "b.x.sock"):
        pytest.skip("the folder for tests has a path that is too long for sockets")
    return folder / "names.db.local" / "b.x.sock"


def test_the_socket_lies_beside_the_database():
    assert str(place_of(settings(), "b.x", {})) == "/var/lib/shadowtree/names.db.local/b.x.sock"


@pytest.mark.parametrize("database", [f"sqlite:////{'d' * 100}/names.db", "postgresql://u@h/names"])
def test_a_database_without_a_short_folder_has_its_socket_in_the_runtime_folder(database):
    found = place_of(settings(database), "b.x", {"XDG_RUNTIME_DIR": "/run/user/7"})
    assert str(found.parent) == "/run/user/7/shadowtree"
    other = place_of(settings(database + "2"), "b.x", {"XDG_RUNTIME_DIR": "/run/user/7"})
    assert other != found
    assert place_of(settings(database), "b.x", {"XDG_RUNTIME_DIR": "/run/user/7"}) == found


def test_the_folder_of_the_unit_comes_before_that_of_the_session():
    assert str(runtime_folder({"RUNTIME_DIRECTORY": "/run/a:/run/b", "XDG_RUNTIME_DIR": "/run/user/7"})) == "/run/a"
    assert runtime_folder({}).name == f"shadowtree-{os.geteuid()}"


def test_a_place_that_is_given_is_taken_and_none_is_none():
    assert str(place_of(settings(listen_local="unix:/run/s.sock"), "b.x", {})) == "/run/s.sock"
    assert place_of(settings(listen_local="none"), "b.x", {}) is None


def test_no_place_that_is_short_enough_is_told():
    with pytest.raises(LocalSocketError, match="listen_local = 'unix:PATH'"):
        place_of(settings("postgresql://h/names"), "b.x", {"XDG_RUNTIME_DIR": "/" + "d" * 100})


@pytest.mark.parametrize("wrong", ["/run/s.sock", "unix:", "unix:" + "d" * (SOCKET_PATH_LIMIT + 1), "127.0.0.1:7400"])
def test_what_is_no_socket_is_refused_with_the_settings(wrong):
    with pytest.raises(SettingsError, match="listen-local"):
        settings(listen_local=wrong)


def test_only_the_owner_opens_the_socket_and_its_folder(place):
    listen(place, bind)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    mask = os.umask(0o022)
    os.umask(mask)
    assert mask != 0o177


def test_the_socket_of_a_server_that_was_killed_is_replaced(place):
    listen(place, bind)
    before = place.stat().st_ino
    (place.parent / "holds the number of the old file").touch()
    listen(place, bind)
    assert place.exists()
    assert before


def test_the_socket_of_a_running_server_stays(place):
    place.parent.mkdir(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        with pytest.raises(LocalSocketError, match="another server listens"):
            listen(place, bind)
        assert place.exists()


def test_a_file_in_the_place_of_the_socket_stays(place):
    place.parent.mkdir(0o700)
    place.write_text("notes")
    with pytest.raises(LocalSocketError, match="is no socket"):
        listen(place, bind)
    assert place.read_text() == "notes"


def test_a_folder_that_others_may_enter_is_refused(place):
    place.parent.mkdir()
    place.parent.chmod(0o755)
    with pytest.raises(LocalSocketError, match="chmod 700"):
        listen(place, bind)


def test_a_link_in_the_place_of_the_folder_is_refused(place):
    target = place.parent.parent / "elsewhere"
    target.mkdir(0o700)
    place.parent.symlink_to(target)
    with pytest.raises(LocalSocketError, match="is no folder"):
        listen(place, bind)


def test_a_folder_of_another_user_is_refused(place, monkeypatch):
    place.parent.mkdir(0o700)
    monkeypatch.setattr("nameserver.access.local_socket.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(LocalSocketError, match="must belong to the user of the server"):
        listen(place, bind)


def test_a_socket_that_the_library_cannot_bind_is_told(place):
    def refuse(_address):
        raise RuntimeError("Failed to bind")

    with pytest.raises(LocalSocketError, match="Failed to bind"):
        listen(place, refuse)
