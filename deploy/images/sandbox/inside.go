package sandbox

func IsInside() bool { return false }
func Inside()        {}
