"""What other servers must not say, each rule beside the message it judges."""
