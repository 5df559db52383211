package disk

// Fitting is fitting, for tests.
var Fitting = fitting //nolint:gochecknoglobals // a function
