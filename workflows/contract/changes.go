package contract

// Changes are the IDs of what changed in the entities' logic since the floor, oldest first: each is the change ID of
// one workflow.GetVersion. Each run asks for all of them when it begins, and so keeps its logic for as long as it
// lasts.
func Changes() []string { return nil }
