"""Makes lists in a Mailman 3, whose own Python runs this: `mailman withlist --run benchmarks.mailman_lists.make FILE`.

The file is JSON: the members of each list, by its address. Senders who are no members may write to the lists. A message
need not name a list in To: otherwise the outer list would hold the messages of a list in it.
"""

from __future__ import annotations

import json
from pathlib import Path

from mailman.app.lifecycle import create_list
from mailman.config import config
from mailman.interfaces.action import Action
from mailman.interfaces.archiver import ArchivePolicy
from mailman.interfaces.domain import IDomainManager
from mailman.interfaces.usermanager import IUserManager
from zope.component import getUtility


def make(file: str) -> None:
    """Make all lists of the file."""
    people = getUtility(IUserManager)
    for name, members in json.loads(Path(file).read_text(encoding="utf-8")).items():
        domain = name.partition("@")[2]
        if domain not in getUtility(IDomainManager):
            getUtility(IDomainManager).add(domain)
        made = create_list(name, ["owner@people.example"])
        made.default_nonmember_action = Action.accept
        made.require_explicit_destination = False
        made.archive_policy = ArchivePolicy.never
        for each in members:
            address = people.get_address(each) or people.create_address(each)
            made.subscribe(address, send_welcome_message=False)
    config.db.commit()
