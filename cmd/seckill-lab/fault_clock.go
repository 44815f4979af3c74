package main

var clockScenarios []scenario
