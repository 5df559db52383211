package disk

// Fitting is fitting, for tests.
var Fitting = fitting //nolint:gochecknoglobals // a function

// NotOpened is notOpened, for tests: who runs them may open everything.
var NotOpened = notOpened //nolint:gochecknoglobals // a function
