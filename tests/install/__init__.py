"""What a user finds at home: manual pages, completions, the installed files, documents, looks."""
