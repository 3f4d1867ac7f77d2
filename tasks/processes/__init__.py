"""The processes that compute: their crew, the fork server, what work is given."""
