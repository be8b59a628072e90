import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.stream.IntStream;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.PhysicalAddress;
import org.jgroups.Receiver;
import org.jgroups.protocols.FRAG4;
import org.jgroups.protocols.MFC;
import org.jgroups.protocols.SEQUENCER;
import org.jgroups.protocols.TCP;
import org.jgroups.protocols.TCPPING;
import org.jgroups.protocols.UFC;
import org.jgroups.protocols.UNICAST3;
import org.jgroups.protocols.pbcast.GMS;
import org.jgroups.protocols.pbcast.NAKACK2;
import org.jgroups.protocols.pbcast.STABLE;
import org.jgroups.stack.IpAddress;

/**
 * One of three members of a JGroups cluster with total order (SEQUENCER over TCP), in memory alone.
 *
 * <p>java -cp JAR Broadcast.java NUMBER COUNT PORT PORT PORT. Each prints `ready` once all are there, and waits for a line
 * of input. Member 1 then broadcasts COUNT payloads of 200 B and prints the seconds until the other two said that they
 * have all of them; then 200 single ones, and the median seconds until member 2 has one.
 */
public class Broadcast {
    private static final int SINGLE = 200;

    public static void main(String[] args) throws Exception {
        int number = Integer.parseInt(args[0]);
        int count = Integer.parseInt(args[1]);
        int[] ports = Arrays.stream(args, 2, 5).mapToInt(Integer::parseInt).toArray();
        InetAddress local = InetAddress.getByName("127.0.0.1");
        List<PhysicalAddress> hosts =
            IntStream.of(ports).mapToObj(port -> (PhysicalAddress) new IpAddress(local, port)).toList();
        TCP tcp = new TCP();
        tcp.setBindAddress(local).setBindPort(ports[number]).setPortRange(0);
        JChannel channel = new JChannel(
            tcp, new TCPPING().setInitialHosts2(hosts), new NAKACK2(), new UNICAST3(), new STABLE(),
            new GMS().setJoinTimeout(2000), new UFC(), new MFC(), new FRAG4(), new SEQUENCER());
        Semaphore others = new Semaphore(0);
        ConcurrentLinkedQueue<Double> seconds = new ConcurrentLinkedQueue<>();
        CountDownLatch singles = new CountDownLatch(SINGLE);
        channel.setReceiver(new Receiver() {
            private int received;

            @Override
            public void receive(Message message) {
                long[] told = message.getLength() == 8 ? new long[] {toLong(message)} : null;
                if (message.getDest() != null) {
                    if (told[0] == 0) {
                        others.release();
                    } else {
                        seconds.add(told[0] / 1e9);
                        singles.countDown();
                    }
                } else if (number != 1) {
                    answer(message, told);
                }
            }

            private void answer(Message message, long[] told) {
                try {
                    if (told == null && ++received % count == 0) {
                        channel.send(message.getSrc(), toBytes(0));
                    } else if (told != null && number == 2) {
                        // All processes of one machine have one clock of this kind.
                        channel.send(message.getSrc(), toBytes(System.nanoTime() - told[0]));
                    }
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }
        });
        channel.connect("beside");
        while (channel.getView().size() < 3) {
            Thread.onSpinWait();
        }
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        input.readLine();
        if (number == 1) {
            byte[] payload = new byte[200];
            double many = 0;
            for (int round = 0; round < 2; round++) {
                long began = System.nanoTime();
                for (int sent = 0; sent < count; sent++) {
                    channel.send(new BytesMessage(null, payload));
                }
                others.acquire(2);
                // The first round is compiled while it runs.
                many = (System.nanoTime() - began) / 1e9;
            }
            for (int sent = 0; sent < SINGLE; sent++) {
                long before = singles.getCount();
                channel.send(new BytesMessage(null, toBytes(System.nanoTime())));
                while (singles.getCount() == before) {
                    Thread.onSpinWait();
                }
            }
            double[] sorted = seconds.stream().mapToDouble(Double::doubleValue).sorted().toArray();
            System.out.println(many + " " + sorted[sorted.length / 2]);
            input.readLine();
        }
        channel.close();
    }

    private static byte[] toBytes(long value) {
        return java.nio.ByteBuffer.allocate(8).putLong(value).array();
    }

    private static long toLong(Message message) {
        return java.nio.ByteBuffer.wrap(message.getArray(), message.getOffset(), 8).getLong();
    }
}
