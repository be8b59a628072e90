"""Rules for messages of other servers, each rule beside the message that it judges."""
