import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Does with Redisson what it is told, line by line; see interop/src/worker.rs. */
public final class Worker {
    /** What Redisson takes for "renew it as long as I live". */
    private static final long RENEWED = -1;

    private final RedissonClient redisson;
    private final boolean isFair;

    private Worker(RedissonClient redisson, boolean isFair) {
        this.redisson = redisson;
        this.isFair = isFair;
    }

    /** Arguments: the client, then the address of each server; several are a cluster. */
    public static void main(String[] args) throws Exception {
        Config config = new Config();
        if (args.length > 2) {
            var cluster = config.useClusterServers();
            for (int i = 1; i < args.length; i++) {
                cluster.addNodeAddress("redis://" + args[i]);
            }
        } else {
            config.useSingleServer().setAddress("redis://" + args[1]);
        }
        RedissonClient redisson = Redisson.create(config);
        Worker worker = new Worker(redisson, args[0].equals("redisson-fair"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(worker.answer(line.split(" ")));
        }
        redisson.shutdown();
    }

    /** All from one thread: to Redisson a thread is an owner. */
    private String answer(String[] words) {
        RLock lock = isFair ? redisson.getFairLock(words[1]) : redisson.getLock(words[1]);
        try {
            switch (words[0]) {
                case "try":
                    boolean isHeld = lock.tryLock(0, lease(words[2]), TimeUnit.MILLISECONDS);
                    return isHeld ? "held" : "busy";
                case "wait":
                    lock.lock(lease(words[2]), TimeUnit.MILLISECONDS);
                    return "held";
                case "unlock":
                    lock.unlock();
                    return "free";
                case "force":
                    return lock.forceUnlock() ? "free" : "busy";
                case "left":
                    return Long.toString(lock.remainTimeToLive());
                default:
                    return "unknown";
            }
        } catch (IllegalMonitorStateException notOurs) {
            return "refused";
        } catch (Exception error) {
            return "error " + error.toString().replace('\n', ' ');
        }
    }

    private static long lease(String word) {
        return word.equals("renewed") ? RENEWED : Long.parseLong(word);
    }
}
