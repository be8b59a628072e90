"""Policy of a server, read from the texts of its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from namegraph.model.policies import People, ServerPolicy, Subject
from namegraph.rights.presets import parse_preset
from namegraph.rights.subjects import MEMBERS, OWNERS, InvalidPolicyError, parse_subjects

_SUBJECTS = ("operators", "create", "admin", "mail", "audit")


def parse_server_policy(settings: Mapping[str, object]) -> ServerPolicy:
    """Return the policy that settings describe. Missing settings have their defaults. Raises `InvalidPolicyError`."""
    known = ServerPolicy.__struct_fields__
    unknown = sorted(settings.keys() - set(known))
    if unknown:
        raise InvalidPolicyError(
            unknown[0], f"policy: there is no setting {unknown[0]!r:.80}; there are: {', '.join(known)}"
        )
    found = ServerPolicy()
    subjects = {name: _subjects(name, settings.get(name, ())) for name in _SUBJECTS}
    preset = parse_preset(str(settings.get("default_preset", found.default_preset.value)))
    people = str(settings.get("people", found.people.value))
    if people not in tuple(People):
        raise InvalidPolicyError("people", f"people: {people!r:.80} is none of: {', '.join(People)}")
    return ServerPolicy(default_preset=preset, people=People(people), **subjects)


def _subjects(name: str, texts: object) -> tuple[Subject, ...]:
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise InvalidPolicyError(name, f'{name}: a list of subjects is wanted, such as ["it@b.example"]')
    found = parse_subjects(name, [str(text) for text in texts])
    for word in (MEMBERS, OWNERS):
        if word in found:
            raise InvalidPolicyError(name, f"{name}: `{word}` means nothing here: a server is no group; name a group")
    return found
