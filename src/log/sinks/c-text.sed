# Lines of a file as strings of C.
s/[\\"]/\\&/g
s/.*/"&\\n"/
