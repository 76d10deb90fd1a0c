"""What the files were: captures, comparisons and restores."""
