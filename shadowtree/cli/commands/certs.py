"""`shadowtree certs`: make, renew and show the certificates of servers and users.

The forms of certificates belong to the server, a layer below the client, and are loaded only here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec

import click

from shadowtree.cli.render.complaints import FAILED_REASON, complain
from shadowtree.cli.render.output import print_json, print_lines
from shadowtree.cli.support.exit_codes import DONE, FAILED
from shadowtree.cli.support.options import Session, format_option, in_session
from shadowtree.cli.support.private_files import private_files

if TYPE_CHECKING:
    from cryptography import x509

    from nameserver.trust.authority_folder import IssuedLeaf

_Parameters = ParamSpec("_Parameters")

_FOLDER: Final = click.Path(path_type=Path, file_okay=False)
_FILE: Final = click.Path(path_type=Path, dir_okay=False)

_dir_option = click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=_FOLDER,
    default=Path("certs"),
    help="The folder of the authority. [default: certs]",
)


def _or_failed(command: Callable[_Parameters, int]) -> Callable[_Parameters, int]:
    """Print an error about a file in one line."""

    @wraps(command)
    def run(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> int:
        from nameserver.trust.key_files import TrustFileError

        try:
            with private_files():
                return command(*arguments, **options)
        except TrustFileError as error:
            complain(str(error), FAILED_REASON)
            return FAILED

    return run


@click.group("certs")
def certs_command() -> None:
    """Make, renew and show the certificates by which servers and users prove themselves.

    An organisation has one authority, in a folder whose keys never leave its machine. Other organisations get its
    `ca.pem` and pin it.

    \b
    Example:
      shadowtree certs init certs --name ubc.example
      shadowtree certs server --subnet ubc.example
    """


@certs_command.command("init")
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option("--name", metavar="S", required=True, help="The name of the organisation: one of its subnets.")
@_or_failed
def init_command(folder: Path, name: str) -> int:
    """Make the authority of an organisation in DIR: ca.pem and ca.key, valid for two years.

    \b
    Example:
      shadowtree certs init certs --name ubc.example
    """
    from nameserver.trust.authority_folder import AuthorityFolder
    from nameserver.trust.leaves import fingerprint_of

    authority = AuthorityFolder.begin(folder, _subnet(name, "--name"), at=_now())
    print_lines(
        [
            f"authority\t{folder / 'ca.pem'}",
            f"key\t{folder / 'ca.key'}",
            f"fingerprint\t{fingerprint_of(authority.certificate)}",
        ]
    )
    return DONE


@certs_command.command("server")
@click.option("--subnet", "subnets", metavar="S", multiple=True, required=True, help="A subnet that the server owns.")
@click.option("--name", metavar="NAME", help="The name of the server. [default: its first subnet]")
@_dir_option
@_or_failed
def server_command(subnets: tuple[str, ...], name: str | None, folder: Path) -> int:
    """Make the certificate of a server, valid for 30 days, with its key and its signing key.

    The certificate names all subnets of the server: --subnet may be repeated.

    \b
    Example:
      shadowtree certs server --subnet ubc.example --subnet cs.ubc.example
    """
    from namegraph import ServerId
    from nameserver.trust.authority_folder import AuthorityFolder
    from nameserver.trust.leaves import LEAF_NAMES_LIMIT

    owned = tuple(dict.fromkeys(_subnet(each, "--subnet") for each in subnets))
    server = owned[0] if name is None else _subnet(name, "--name")
    if server not in owned:
        raise click.BadParameter(f"{server} is none of the subnets of the server", param_hint="--name")
    if len(owned) > LEAF_NAMES_LIMIT:
        raise click.BadParameter(f"a certificate names {LEAF_NAMES_LIMIT:,} subnets at most", param_hint="--subnet")
    at = _now()
    _print_issued(AuthorityFolder.open(folder, at=at).issue_server(ServerId(server), owned, at=at))
    return DONE


@certs_command.command("user")
@click.argument("user", metavar="USER@SUBNET")
@_dir_option
@_or_failed
def user_command(user: str, folder: Path) -> int:
    """Make the certificate of a user, valid for 24 hours, with its key.

    \b
    Example:
      shadowtree certs user ann@ubc.example
    """
    from namegraph import InvalidNameError, parse_name
    from nameserver.trust.authority_folder import AuthorityFolder

    try:
        principal = parse_name(user)
    except InvalidNameError as error:
        raise click.BadParameter(str(error), param_hint="USER@SUBNET") from None
    at = _now()
    _print_issued(AuthorityFolder.open(folder, at=at).issue_user(principal, at=at))
    return DONE


@certs_command.command("renew")
@click.argument("file", metavar="FILE", type=_FILE)
@_dir_option
@click.option("--new-key", is_flag=True, help="Make a new key too. Pins of the key end with it.")
@_or_failed
def renew_command(file: Path, folder: Path, new_key: bool) -> int:
    """Replace the certificate in FILE by one of the same names and a full life.

    A server that runs takes it within ten seconds, without a restart. The key stays, unless --new-key is given.

    \b
    Example:
      shadowtree certs renew certs/ubc.example.pem
    """
    from nameserver.trust.authority_folder import AuthorityFolder

    at = _now()
    _print_issued(AuthorityFolder.open(folder, at=at).renew(file, at=at, is_key_new=new_key))
    return DONE


@certs_command.command("show")
@click.argument("file", metavar="FILE", type=_FILE)
@format_option
@in_session
@_or_failed
def show_command(session: Session, file: Path) -> int:
    """Show the certificates in FILE: of whom they are, and until when.

    \b
    Example:
      shadowtree certs show certs/ubc.example.pem
    """
    from nameserver.trust.key_files import read_certificates

    described = [_described(each) for each in read_certificates(file)]
    if session.is_json:
        print_json({"certificates": described})
    else:
        print_lines(f"{key}\t{_text(value)}" for facts in described for key, value in facts.items() if value)
    return DONE


@certs_command.command("bundle")
@click.argument("files", metavar="FILE...", type=_FILE, nargs=-1, required=True)
@click.option("--out", metavar="FILE", type=_FILE, help="Where to write it. [default: standard output]")
@_or_failed
def bundle_command(files: tuple[Path, ...], out: Path | None) -> int:
    """Put the authorities of several files into one bundle, for the time in which an organisation changes its own.

    A file whose authority has expired is refused, and named.

    \b
    Example:
      shadowtree certs bundle old/ca.pem new/ca.pem --out ubc-ca.pem
    """
    from nameserver.trust.bundles import BundleError, parse_bundle
    from nameserver.trust.key_files import TrustFileError, read_pem, replace

    at = _now()
    for file in files:
        try:
            parse_bundle(read_pem(file), at=at)
        except BundleError as error:
            raise TrustFileError(f"{file} is of no use: {error}") from None
    try:
        bundle = parse_bundle(b"".join(read_pem(file).rstrip() + b"\n" for file in files), at=at)
    except BundleError as error:
        raise TrustFileError(f"the bundle is of no use: {error}") from None
    if out is None:
        sys.stdout.write(bundle.pem.decode("ascii"))
    else:
        replace(out, bundle.pem)
        print_lines([f"bundle\t{out}", *(f"fingerprint\t{each}" for each in bundle.fingerprints)])
    return DONE


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _subnet(text: str, hint: str) -> Any:
    from namegraph import InvalidNameError, parse_subnet

    try:
        return parse_subnet(text)
    except InvalidNameError as error:
        raise click.BadParameter(str(error), param_hint=hint) from None


def _print_issued(issued: IssuedLeaf) -> None:
    lines = [f"certificate\t{issued.certificate}", f"key\t{issued.key}"]
    if issued.signing_key is not None:
        lines.append(f"signing key\t{issued.signing_key}")
    print_lines([*lines, f"expires\t{issued.leaf.expires:%Y-%m-%dT%H:%M:%SZ}"])


def _described(certificate: x509.Certificate) -> dict[str, object]:
    """Return the facts of a certificate, in the order in which they are shown."""
    from nameserver.trust.bundles import is_authority
    from nameserver.trust.identities import NotAuthentic
    from nameserver.trust.leaves import fingerprint_of, key_pin_of, read_leaf

    times = {
        "begins": f"{certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}",
        "expires": f"{certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}",
        "state": _state(certificate),
    }
    found: dict[str, object]
    if is_authority(certificate):
        found = {"authority": certificate.subject.rfc4514_string()}
    else:
        leaf = read_leaf(certificate)
        if isinstance(leaf, NotAuthentic):
            found = {"unusable": leaf.why}
        elif leaf.is_server:
            found = {"server": leaf.owner, "subnets": list(leaf.subnets)}
            if leaf.signing_key is not None:
                found["signing_key"] = leaf.signing_key.hex()
        else:
            found = {"user": leaf.owner}
    return {
        **found,
        "issuer": certificate.issuer.rfc4514_string(),
        **times,
        "fingerprint": fingerprint_of(certificate),
        "pin": key_pin_of(certificate),
    }


def _state(certificate: x509.Certificate) -> str:
    from nameserver.trust.judgement import duration

    at = _now()
    if at < certificate.not_valid_before_utc:
        return f"valid in {duration(certificate.not_valid_before_utc - at)}"
    if at > certificate.not_valid_after_utc:
        return f"expired {duration(at - certificate.not_valid_after_utc)} ago"
    return f"valid for {duration(certificate.not_valid_after_utc - at)} more"


def _text(value: object) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value)
    # An issuer is free to put control characters into its name.
    return "".join(character if character.isprintable() else " " for character in text)
