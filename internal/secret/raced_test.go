//go:build race

package secret

// planted is less where every step takes ten times as long.
const planted = 15
