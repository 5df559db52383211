package recipes

import (
	"context"
	"errors"
)

func launcher(ctx context.Context, k *Kitchen) (Image, error) { return Image{}, errors.New("todo") }
