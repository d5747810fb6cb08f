"""Every dog in a photo: the head that finds them, the pictures that it learns from, and a second pass for each."""
