"""Faults of other servers, in the words of operators. Each is counted by server, and shown by `peers`."""

from __future__ import annotations

from enum import StrEnum


class PeerFault(StrEnum):
    """Fault in a message of another server. The text continues a sentence that begins with that server's name."""

    REPEATED = "repeated"
    OUT_OF_ORDER = "out of order"
    UNEARNED_RECEIPT = "receipt for what was not sent"
    UNREADABLE = "unreadable message"
    NOT_LEGAL = "sends an invalid name or number"
    LEAP = "sends a number that leaps too far"
    NOT_ONE_UPDATE = "mixes kinds of operation in one update"
    NOT_ITS_UPDATE = "acts as coordinator of another server's update"
    TOO_MANY_UPDATES = "coordinates too many updates at once"
    NOT_OUR_UPDATE = "answers this server about another coordinator's update"
    NOT_ITS_NODE = "speaks for a node it does not own"
    NOT_OUR_NODE = "asks this server about a node of another server"
    NO_COLUMNS = "sends columns that do not fit together, or a list that is too long"
    NO_ARC = "names an impossible arc"
    NOT_ITS_VIEW = "acts as leader of another server's view"
    NOT_IN_VIEW = "sends a message of a view that it does not belong to"
    TOO_EARLY = "sends too much in a view that is not installed here"
    NOT_OUR_VIEW = "sends this server a message meant for another view or leader"
    NOT_READY = "commits an update for which this server is not ready"
    TOO_SLOW = "lets this server wait for too long"
    UNSAID = "is ready but leaves out what the outcome needs"
    UNASKED = "answers about an update that it was not asked about"
    NOT_ITS_ANCESTRY = "is ready with wrong ancestry of this server's nodes"
    NOT_IN_USE = "names arcs to leave that do not keep the group from being deleted"
    OTHER_PLACE = "commits an update at another place in the order than agreed"
    IMPOSSIBLE = "commits a state that cannot exist"
    OTHER_GROUPS = "commits changes to this server's groups other than those agreed"
    OTHER_ARCS = "commits changes to this server's arcs other than those agreed"
    OTHER_RECORDS = "commits ancestry of this server's nodes that does not follow from the update"
    OTHER_LOOPS = "commits a loop of groups that form no cycle"
    CONTRADICTED = "tells memberships that the home of the group denies"
    NOT_ITS_TARGET = "sends messages to a group or a person of another server"
    NOT_ITS_MAIL = "carries mail of lists of another server's subnet"
    TOO_MANY_SERVERS = "names too many servers below a group"
    NOT_OUR_PARCEL = "confirms messages that this server did not send it"
    TOO_MUCH_POST = "sends more messages than this server has room for"


MAY_COME_AGAIN = frozenset({PeerFault.REPEATED, PeerFault.OUT_OF_ORDER, PeerFault.UNEARNED_RECEIPT})
"""Faults that a new connection of a correct server can cause too."""
