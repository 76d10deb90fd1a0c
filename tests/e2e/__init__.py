"""The installed program on real git, from end to end."""
