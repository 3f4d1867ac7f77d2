"""The processes that compute: what starts them, the fork server, what work is given."""
