"""Questions about membership: resolution plans, checks, memberships, descriptions."""
