"""The tests of yolop-cli."""
