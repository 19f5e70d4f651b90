// The Go peers: redsync and bsm/redislock. Spoken to as src/redis/talk.rs says.
package main

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const ttl = 30 * time.Second

// Takes the lock and answers how to give it back.
type take func(context.Context) (func(context.Context) error, error)

type count struct {
	cycles, handOvers int64
	times             []int64
	err               error
}

type worker struct {
	servers []redis.UniversalClient
	redsync *redsync.Redsync
}

func newWorker(addresses []string) *worker {
	var w worker
	var pools []rsredis.Pool
	for _, address := range addresses {
		server := redis.NewClient(&redis.Options{Addr: address, PoolSize: 64})
		w.servers = append(w.servers, server)
		pools = append(pools, goredis.NewPool(server))
	}
	w.redsync = redsync.New(pools...)
	return &w
}

func (w *worker) taker(variant, key string) (take, error) {
	switch variant {
	case "redsync":
		return func(ctx context.Context) (func(context.Context) error, error) {
			// As it comes, but it does not give up after 32 tries.
			lock := w.redsync.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt32))
			release := func(ctx context.Context) error {
				_, err := lock.UnlockContext(ctx)
				return err
			}
			return release, lock.LockContext(ctx)
		}, nil
	case "redislock":
		// It does not wait by itself.
		options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)}
		locks := redislock.New(w.servers[0])
		return func(ctx context.Context) (func(context.Context) error, error) {
			lock, err := locks.Obtain(ctx, key, ttl, options)
			if err != nil {
				return nil, err
			}
			return lock.Release, nil
		}, nil
	}
	return nil, fmt.Errorf("no variant is called %q", variant)
}

func contend(number int64, take take, last *atomic.Int64, endsAt time.Time, isAlone bool) (c count) {
	// It would give up by itself after one ttl.
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for time.Now().Before(endsAt) {
		begunAt := time.Now()
		release, err := take(ctx)
		if err != nil {
			c.err = err
			return
		}
		// What comes after the end is not counted.
		if time.Now().Before(endsAt) {
			c.cycles++
			if last.Swap(number) != number {
				c.handOvers++
			}
		}
		if c.err = release(ctx); c.err != nil {
			return
		}
		if isAlone {
			c.times = append(c.times, int64(time.Since(begunAt)))
		}
	}
	return
}

func (w *worker) run(variant, keys string, contenders int, milliseconds int64) (string, error) {
	counts := make([]count, contenders)
	takes := make([]take, contenders)
	lasts := make([]*atomic.Int64, contenders)
	for i := range counts {
		key := fmt.Sprintf("%s:%d", variant, i)
		lasts[i] = new(atomic.Int64)
		if keys == "same" {
			key, lasts[i] = variant, lasts[0]
		}
		var err error
		if takes[i], err = w.taker(variant, key); err != nil {
			return "", err
		}
	}
	lasts[0].Store(-1)
	endsAt := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	var all sync.WaitGroup
	for i := range counts {
		all.Go(func() {
			counts[i] = contend(int64(i), takes[i], lasts[i], endsAt, contenders == 1)
		})
	}
	all.Wait()
	var cycles, handOvers, most, p50 int64
	least := int64(math.MaxInt64)
	for _, c := range counts {
		if c.err != nil {
			return "", c.err
		}
		cycles += c.cycles
		handOvers += c.handOvers
		least, most = min(least, c.cycles), max(most, c.cycles)
		if len(c.times) > 0 {
			slices.Sort(c.times)
			p50 = c.times[len(c.times)/2]
		}
	}
	return fmt.Sprint(cycles, milliseconds*1000, p50, handOvers, least, most), nil
}

func main() {
	w := newWorker(os.Args[1:])
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var variant, keys string
		var contenders int
		var milliseconds int64
		_, err := fmt.Sscan(input.Text(), &variant, &keys, &contenders, &milliseconds)
		answer := ""
		if err == nil {
			answer, err = w.run(variant, keys, contenders, milliseconds)
		}
		if err != nil {
			answer = fmt.Sprint("error: ", err)
		}
		fmt.Println(answer)
	}
}
