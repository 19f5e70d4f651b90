import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** The Java peer: Redisson's lock and its fair lock. Spoken to as src/redis/talk.rs says. */
public final class Worker {
    private final RedissonClient redisson;

    private Worker(String address) {
        var config = new Config();
        config.useSingleServer().setAddress("redis://" + address);
        redisson = Redisson.create(config);
    }

    /** What one contender did; the times in nanoseconds, if it was the only one. */
    private record Count(long cycles, long handOvers, long[] times) {}

    private RLock lock(String variant, String key) {
        return switch (variant) {
            case "redisson" -> redisson.getLock(key);
            case "redisson-fair" -> redisson.getFairLock(key);
            default -> throw new IllegalArgumentException("no variant is called " + variant);
        };
    }

    private static Count contend(int number, RLock lock, AtomicInteger last, long endsAt, boolean isAlone) {
        long cycles = 0;
        long handOvers = 0;
        var times = new ArrayList<Long>();
        while (System.nanoTime() < endsAt) {
            var begunAt = System.nanoTime();
            lock.lock();
            // What comes after the end is not counted.
            if (System.nanoTime() < endsAt) {
                cycles++;
                handOvers += last.getAndSet(number) == number ? 0 : 1;
            }
            lock.unlock();
            if (isAlone) {
                times.add(System.nanoTime() - begunAt);
            }
        }
        return new Count(cycles, handOvers, times.stream().mapToLong(Long::longValue).toArray());
    }

    private String run(String variant, String keys, int contenders, long milliseconds) throws Exception {
        var isSame = keys.equals("same");
        var shared = new AtomicInteger(-1);
        var endsAt = System.nanoTime() + milliseconds * 1_000_000;
        List<Callable<Count>> tasks = new ArrayList<>();
        for (int i = 0; i < contenders; i++) {
            var number = i;
            var lock = lock(variant, isSame ? variant : variant + ":" + number);
            var last = isSame ? shared : new AtomicInteger(-1);
            tasks.add(() -> contend(number, lock, last, endsAt, contenders == 1));
        }
        // A lock belongs to a thread, so each contender is one.
        ExecutorService threads = Executors.newFixedThreadPool(contenders);
        long cycles = 0;
        long handOvers = 0;
        long least = Long.MAX_VALUE;
        long most = 0;
        long p50 = 0;
        try {
            for (Future<Count> future : threads.invokeAll(tasks)) {
                var count = future.get();
                cycles += count.cycles();
                handOvers += count.handOvers();
                least = Math.min(least, count.cycles());
                most = Math.max(most, count.cycles());
                Arrays.sort(count.times());
                p50 = count.times().length == 0 ? 0 : count.times()[count.times().length / 2];
            }
        } finally {
            threads.shutdown();
        }
        return cycles + " " + milliseconds * 1000 + " " + p50 + " " + handOvers + " " + least + " " + most;
    }

    public static void main(String[] arguments) throws Exception {
        var worker = new Worker(arguments[0]);
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (var line = input.readLine(); line != null; line = input.readLine()) {
            try {
                var words = line.split(" ");
                var contenders = Integer.parseInt(words[2]);
                System.out.println(worker.run(words[0], words[1], contenders, Long.parseLong(words[3])));
            } catch (Exception error) {
                System.out.println("error: " + error);
            }
        }
        System.exit(0);
    }
}
