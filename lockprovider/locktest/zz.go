package locktest

var groupL []Case
