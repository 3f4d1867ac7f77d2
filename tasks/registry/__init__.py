"""Model versions and aliases: release, approval, rollback."""
