"""What the tests share: sandboxes with real git, the program as a child, readers of their own."""
