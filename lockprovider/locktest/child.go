package locktest

// ChildMain runs this process as the child of a case, if it was started as one.
func ChildMain() bool { return false }
