"""What Millrace does (files: the verbs) and what it knows (folders: the nouns)."""
