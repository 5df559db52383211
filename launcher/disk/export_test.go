package disk

// Fitting is fitting, for tests.
var Fitting = sizeThatFits

// NotOpened is notOpened, for tests: they may run as root, which can open everything.
var NotOpened = notOpened
