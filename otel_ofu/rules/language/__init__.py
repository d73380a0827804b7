"""The language of conditions: text in, checked syntax trees out."""
