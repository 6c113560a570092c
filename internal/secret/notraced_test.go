//go:build !race

package secret

const planted = 200
