package main

// headroomSize is memory that is reserved and never touched, so it takes none, and the
// garbage collector counts it: it runs when the heap has doubled, and a node that keeps
// a few MB would else collect several times a second just when most is asked of it.
const headroomSize = 32 << 20
